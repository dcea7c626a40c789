"""Sentences for the tests of the built-in model."""

SENTENCES = (
    "Alice drinks her coffee with oat milk.",
    "The quarterly report is due on Friday.",
    "Our deployment failed because the certificate had expired.",
    "He moved to Lisbon in the spring of 2021.",
    "Please never call me before nine in the morning.",
    "The cat sleeps on the warm radiator all day.",
    "Use snake_case for functions and CamelCase for classes.",
    "Her sister is getting married next June in Porto.",
    "The database runs out of connections under load.",
    "I am allergic to peanuts and shellfish.",
    "Rotate the API keys every ninety days.",
    "Melanie painted a sunrise over the lake last year.",
    "Die Besprechung wurde auf Donnerstag verschoben.",
    "ok",
    "Water the tomatoes twice a week, but not the cactus.",
    "The user prefers dark mode and large fonts.",
    "The invoice number is 2024-00137 and the amount is 1,249.50 EUR.",
    "Bob plays the violin in a small orchestra.",
    "Retry the request with exponential backoff after a timeout.",
    "They adopted two puppies from the shelter on Saturday. " * 60,
)
