"""Files of other products and of our own, as items of OAP. `registry` is the way in."""
