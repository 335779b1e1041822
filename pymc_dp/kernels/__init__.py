"""One iteration of each sampler, on plain numbers: no PyMC, no plan, no state that is kept."""
