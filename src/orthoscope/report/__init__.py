def write(*a): raise SystemExit
