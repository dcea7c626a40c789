"""Operations as HTTP routes."""
