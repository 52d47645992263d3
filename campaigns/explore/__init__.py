"""`fencepost explore`: the next plan is a change of one that reached something first."""
