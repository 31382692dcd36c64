package sqlite

const MaxWaiting = maxWaiting
