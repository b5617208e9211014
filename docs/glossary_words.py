"""What docs/glossary.md says beside the table of quantities: formulas, and the words that are not numbers."""

# Formulas of quantities, by group and key; H is (samples n, units d) with rows h_i and singular values sigma_i.
FORMULAS: dict[tuple[str, str], str] = {
    ("layer", "gap"): r"V = \left\| \frac{H H^\top}{\operatorname{tr} H H^\top} - \frac{I}{n} \right\|_F "
    r"\text{, from } 0 \text{ to } \sqrt{(n-1)/n}",
    ("layer", "effective_rank"): r"\exp\Big( -\sum_i p_i \log p_i \Big), \quad p_i = \frac{\sigma_i}{\sum_j \sigma_j}",
    ("layer", "overlap"): r"c = \frac{1}{n(n-1)} \sum_{i \ne j} \frac{h_i^\top h_j}{\|h_i\| \|h_j\|}",
    ("layer", "rms"): r"\frac{\|H\|_F}{\sqrt{n d}}",
    ("layer", "gradient_norm"): r"\left\| \frac{\partial L}{\partial H} \right\|_F",
    ("layer", "isometry_gap"): r"\log \frac{1}{n} \operatorname{tr} H H^\top - \frac{1}{n} \log\det H H^\top",
    ("layer", "stable_rank"): r"\frac{\|H\|_F^2}{\sigma_1^2}",
    ("layer", "mean_energy"): r"\frac{n \|\bar h\|^2}{\|H\|_F^2}, \quad \bar h = \frac{1}{n} \sum_i h_i",
    ("layer", "weight_gradient_norm"): r"\left\| \frac{\partial L}{\partial W} \right\|_F",
    (
        "network",
        "slope",
    ): r"\log \|g_l\| \approx a + s\,(L - l), \quad s \text{ by least squares over weight layers } l",
    ("depth", "gradient_growth"): r"\frac{\|g_1\|}{\|g_L\|} \text{ of the fitted line}",
    ("block", "sigma1"): r"\sigma_1(J), \quad J = \frac{\partial F}{\partial h}",
    ("update", "relative_size"): r"\frac{\|\Delta W\|_F}{\|W\|_F}",
    ("update", "rms_operator_norm"): r"\sqrt{\frac{\text{in}}{\text{out}}} \, \|\Delta W\|_2",
}

# Words that a report uses and that are not numbers, in alphabetical order.
WORDS: dict[str, str] = {
    "at risk": (
        "Verdict between *healthy* and *sick*: the stated risk is from 0.2 to 0.5, or a check found something that "
        "often makes training slow or dependent on the learning rate. Train it for a few hundred steps before you "
        "rely on it (`orthoscope.confirm`)."
    ),
    "attention": (
        "Broken attention: one key gets all the weight in most heads, logits are so large that the softmax passes no "
        "gradient, the mask leaves queries a single key or none, or the softmax is over the wrong dimension."
    ),
    "centered": (
        "After subtracting the mean over the batch. Centered numbers say how samples differ, raw ones also what they "
        "share. Raw numbers that look bad beside good centered ones mean a large common mean, which is often "
        "harmless."
    ),
    "check": (
        "One rule of the verdict, with its measured number and its limit. It ends as *found*, *clean* or *not "
        "checked*; not checked is not clean, and the reason stands beside it."
    ),
    "collapse": (
        "Rank collapse: with depth the samples of a batch, or the tokens of a sequence, become parallel, so that no "
        "later layer can tell them apart. The layer that a report names is the one from which it lasts to the end. "
        "Bad."
    ),
    "constant": (
        "Status of a layer whose output does not depend on the batch, such as position embeddings. Neither good nor "
        "bad; it is left out of all checks."
    ),
    "dead": (
        "Status of a layer whose output is exactly zero although no weight is zero, such as a ReLU layer whose inputs"
        " are all negative. Bad: no gradient passes."
    ),
    "depth": "Number of weight layers (linear layers and convolutions) that a forward pass has called so far.",
    "disconnected": (
        "No parameter is trainable, or none is connected with the loss: the output is detached, an argmax, or computed "
        "under `torch.no_grad`. Bad: no step changes anything."
    ),
    "explode": (
        "Exploding gradients: the norm of the gradient grows from the output toward the input by more than the "
        "[limit](calibration.md), or is no longer finite. Bad: a learning rate that suits the last layers is too "
        "large for the first ones."
    ),
    "frame": "A matrix with orthonormal columns (orthonormal rows if it is wide). All singular values are 1.",
    "Haar": (
        "The uniform distribution over orthogonal matrices or frames: multiplying by a fixed orthogonal matrix does "
        "not change it. `orthoscope.linalg.haar` draws from it."
    ),
    "healthy": (
        "Verdict: no check found anything beyond its limits. Of networks like this most train; it is evidence, not a "
        "promise ([how often it is right](calibration.md))."
    ),
    "isometry": "A linear map that preserves lengths and angles; all its singular values are 1.",
    "kernel map": (
        "The function that takes the cosine of two inputs to the expected cosine of their outputs after one wide "
        "random layer. Its fixed point is the cosine that all pairs tend to with depth."
    ),
    "loss": (
        "The loss does not fit the outputs: probabilities where it expects logits, for example. Bad: its least value "
        "is far above 0, and its gradients are small."
    ),
    "Muon": (
        "An optimizer that replaces the momentum of each hidden weight matrix by the nearest frame, so that an update"
        " changes all directions by the same amount."
    ),
    "not finite": "Status of a layer whose output holds NaN or infinity. Bad, and reported where it first occurs.",
    "prediction": (
        "A number that theory computes from hyper-parameters alone, for infinitely many random networks; drawn dashed"
        " beside measurements. A measured curve far from it means that something differs from the stated network."
    ),
    "prescription": "One change that may help, with its reason, its code, its predicted and its measured effect.",
    "residual alignment": (
        "In trained residual networks the Jacobians of different blocks share their singular vectors, so "
        "that the representation of an input moves along a straight line with equal steps. `orthoscope "
        "residual` measures four statements of it, RA1 to RA4 ([residual alignment](residual.md)). It "
        "describes training that went well; at initialization its absence means nothing."
    ),
    "residual branch": "The part F of a block h + F(h). The path that carries h is the residual stream.",
    "routing": (
        "Unbalanced experts: the router of a mixture sends nearly all tokens to the same experts. Bad: the others "
        "get no gradient and do not learn."
    ),
    "scale": (
        "Inputs are far from unit size and nothing normalizes them, or logits are so large that the loss starts far "
        "above that of guessing. The first steps then only undo the scale."
    ),
    "slow": (
        "With the optimizer that was named, the loss hardly falls in the first steps, at the best of three learning "
        "rates. Bad: most networks of which that is true did not learn in a hundred steps either."
    ),
    "sick": (
        "Verdict: a number is beyond the limit at which more than half of the networks it was calibrated on did not "
        "train, or a check such as a NaN leaves no doubt."
    ),
    "Stiefel manifold": (
        "The set of all frames of one shape. `orthoscope.manifolds.Stiefel` projects onto it; the "
        "optimizers of `orthoscope.optim` move on it."
    ),
    "symptom": (
        "What was found: collapse, vanish, explode, a degenerate input, attention, routing (of experts), or "
        "parameters, scales or a loss with which nothing can be learned."
    ),
    "token rank": (
        "The effective rank of the tokens of one sequence, averaged over sequences. Attention without residual "
        "connections drives it to 1."
    ),
    "trainability plane": (
        "The plot of the orthogonality gap (samples) against the gradient growth per weight layer. Networks that "
        "train are near ×1, with a small or moderate gap; the points around yours are networks whose training is known."
    ),
    "unknown": (
        "Verdict: nothing was found, but samples or gradients could not be judged, as with a batch of one sample. Give "
        "a batch of at least 8."
    ),
    "vanish": (
        "Vanishing gradients: the norm of the gradient decays from the output toward the input by more than the "
        "[limit](calibration.md), or does not arrive. Bad: the first layers do not learn."
    ),
    "weight layer": "A module with a weight matrix: linear layers and convolutions of any kind.",
    "zero by design": (
        "Status of an output that is zero because the last weight of a residual branch starts at zero. Harmless if "
        "that weight is trainable and gets a gradient: the block begins as the identity, and opens with the first step."
    ),
}
