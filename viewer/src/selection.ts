// Which layer is looked at: one number that the strip, the profiles and the card share.

export interface Choice {
  layer: number | null; // under the cursor of the keyboard or the mouse
  open: boolean; // whether its card is
}

export class Selection {
  private listeners: ((choice: Choice) => void)[] = [];
  private hovers: ((layer: number | null) => void)[] = [];
  choice: Choice = { layer: null, open: false };

  constructor(readonly layers: number) {}

  onChange(listener: (choice: Choice) => void): void {
    this.listeners.push(listener);
  }

  onHover(listener: (layer: number | null) => void): void {
    this.hovers.push(listener);
  }

  hover(layer: number | null): void {
    for (const listener of this.hovers) listener(layer);
  }

  choose(layer: number | null, open = this.choice.open): void {
    const within = layer === null ? null : Math.min(this.layers - 1, Math.max(0, layer));
    this.choice = { layer: within, open: open && within !== null };
    for (const listener of this.listeners) listener(this.choice);
  }

  move(step: number): void {
    this.choose((this.choice.layer ?? (step > 0 ? -1 : this.layers)) + step);
  }

  /** What the arrow keys, Enter and Escape do, wherever they are pressed; false if the key means nothing here. */
  key(name: string): boolean {
    const steps: Record<string, number> = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, PageDown: 10, PageUp: -10 };
    if (name in steps) this.move(steps[name]);
    else if (name === "Home") this.choose(0);
    else if (name === "End") this.choose(this.layers - 1);
    else if (name === "Enter" || name === " ") this.choose(this.choice.layer ?? 0, true);
    else if (name === "Escape") this.choose(this.choice.layer, false);
    else return false;
    return true;
  }
}
