// Package generate translates between POST /v1/generate, by which an agent asks the mediator for a model's answer, and the APIs of models. It sends
// nothing: the pipeline sends the translated request as if the agent had made the call to the model itself.
//
//	models.go   the models that egress rules offer
//	request.go  reads what the agent asks for, and writes it as a request to a model
//	answer.go   turns the answer of the model into the answer to the agent
//	failure.go  says why a model gave no answer
//
// The members of requests and answers are those of the sources that package inference names.
package generate
