"""The modules of this folder by their own names, in tests as in workers.

Not as `distributed.launch`: that name belongs to a package of Dask, which would win where it is installed.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
