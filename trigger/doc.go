// Package trigger keeps the events that start agents, each with an origin that the service verified itself, and signs for one
// event and one binding the two artifacts that say so: the trigger origin proof and the trigger receipt (seed:
// createTriggerOriginProof, createTriggerReceipt).
//
// A [Service] has sources. A [Webhook] verifies signed deliveries ([NewGitHub], [NewStandard], [NewEngine]), a [Schedule] fires at
// the times of a cron expression, a [Queue] claims messages from a spool directory. What they bring in becomes a durable [Event];
// what arrives twice becomes one event. What somebody merely reports ([Service.Report]) is kept to be seen and is never evidence.
//
// A runtime claims an event ([Service.Claim]) and then asks for evidence, post by post ([Service.Evidence]). The event pays for a
// bounded number of posts of each action, and each payment is durable before anything is signed.
package trigger
