"""What the user said: plain frozen values, standard library only."""
