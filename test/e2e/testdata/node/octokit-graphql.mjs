// node octokit-graphql.mjs viewer|comment|fragment|delete|pick: one call with Octokit's GraphQL client; prints what came, or the status and
// the message that the client shows.
import { graphql } from "@octokit/graphql";

const comment = "addComment(input: {subjectId: $id, body: $body}) { commentEdge { node { url } } }";
const [what] = process.argv.slice(2);
const documents = {
  viewer: "query { me: viewer { login } }",
  comment: `mutation ($id: ID!, $body: String!) { ${comment} }`,
  fragment: `mutation ($id: ID!, $body: String!) { ...post } fragment post on Mutation { said: ${comment} }`,
  delete: "mutation ($id: ID!) { addComment: deleteIssue(input: {issueId: $id}) { clientMutationId } }",
  pick: `query Read { viewer { login } } mutation Write($id: ID!) { deleteIssue(input: {issueId: $id}) { clientMutationId } }`,
};
try {
  const data = await graphql(documents[what], { id: "I_7", body: "released", operationName: "Read", headers: { authorization: "token placeholder" } });
  console.log(JSON.stringify(data));
} catch (error) {
  console.log(`${error.status} ${error.message}`);
}
