// node octokit.mjs read|comment|star BASE: one call with the Octokit SDK; prints the status and the problem code, if there is one.
import { Octokit } from "@octokit/rest";

const [what, baseUrl] = process.argv.slice(2);
const octokit = new Octokit({ baseUrl, log: { debug() {}, info() {}, warn() {}, error() {} } });
const calls = {
  read: () => octokit.repos.get({ owner: "acme", repo: "site" }),
  comment: () => octokit.issues.createComment({ owner: "acme", repo: "site", issue_number: 7, body: "released" }),
  milestone: () => octokit.issues.createMilestone({ owner: "acme", repo: "site", title: "next" }),
};
try {
  const response = await calls[what]();
  console.log(`${response.status}`);
} catch (error) {
  // Octokit hands out what is not application/json as text.
  const data = error.response?.data;
  const document = typeof data === "string" ? JSON.parse(data) : data;
  console.log(`${error.status} ${document?.code ?? error.message}`.trim());
}
