package ledger

// What the tests in ledger_test need to know.
var TheSchema = schema

const MaxWaiting = maxWaiting
