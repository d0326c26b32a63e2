"""What the user said: plain frozen values, standard library only; components build them, plan reads them."""
