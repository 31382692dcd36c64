// Package trigger keeps the events that start agents. It verifies each event's origin, and signs two artifacts for an
// event and a binding: trigger origin proof and trigger receipt (seed: createTriggerOriginProof, createTriggerReceipt).
//
// A [Service] has sources. A [Webhook] verifies signed deliveries ([NewGitHub], [NewStandard], [NewEngine]), a
// [Schedule] fires by a cron expression, and a [Queue] claims messages from a spool directory. Each delivery becomes
// one durable [Event], even if it comes twice. Reported events ([Service.Report]) are only shown, and never evidence.
//
// A runtime claims an event ([Service.Claim]) and asks for evidence for each post ([Service.Evidence]). The event
// durably pays for a bounded number of posts of each action before anything is signed.
//
//	service.go   the service and its options
//	event.go     events, and sources' arrivals
//	sources.go   the current sources, which a reload replaces
//	webhook.go   signed deliveries; github.go and standard.go have the schemes, deliver.go the HTTP handler
//	schedule.go  cron expressions
//	queue.go     messages in a spool directory
//	report.go    events without evidence
//	claim.go     claims an event, gives it back or ends it
//	evidence.go  pays for a post and signs; budget.go shows and corrects the payments
//	store.go     the event store; schema.go has its tables
//	server.go    the internal API; client.go calls it
package trigger
