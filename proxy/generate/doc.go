// Package generate translates between POST /v1/generate, the mediator's own prompt endpoint, and the APIs of models. It
// sends nothing: the pipeline treats the translated request like a call that the agent made to the model.
//
//	models.go   the models that egress rules offer
//	request.go  reads the agent's request and translates it for a model
//	answer.go   translates the model's answer for the agent
//	failure.go  explains why a model gave no answer
//
// The comments of package inference name the API descriptions that define the members of requests and answers.
package generate
