"""The village: pure rules in `game.sim`, pictures in `game.view`."""
