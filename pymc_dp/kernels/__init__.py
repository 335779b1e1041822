"""One iteration of each sampler, as functions of plain numbers: no PyMC, no plan, and no state."""
