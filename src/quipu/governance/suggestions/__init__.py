"""Rules that decisions speak for, and writes that would mend memory: shown to people, done by nobody else."""
