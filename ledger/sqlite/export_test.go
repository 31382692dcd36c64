package sqlite

var TheSchema = schema

const MaxWaiting = maxWaiting
