// The pools that have no room in the page: each is a script file beside it, loaded when its problem is chosen.

const NONCE = document.currentScript.nonce;

// The problem's view, of the page itself or from its file. Rejects with the reason, in words for the reader.
function viewOf(problem) {
  if (problem.view) return Promise.resolve(problem.view);
  const path = `${data.files.folder}/${problem.at}.js`;
  const script = el("script", { src: path.split("/").map(encodeURIComponent).join("/") });
  script.nonce = NONCE;
  const answer = new Promise((resolve, reject) => {
    script.addEventListener("load", () => {
      const { report, view } = JSON.parse(script.dataset.pool || "{}");
      if (report === data.files.report && begin(view.id) === problem.id) resolve(problem.view = view);
      else reject(`${path} was made for another report. Open the newest page, or run harness report again.`);
    });
    script.addEventListener("error", () => reject(`The responses are in ${path}, which is not beside this page. ` +
      `Keep the folder ${data.files.folder} with the page, or run harness report again.`));
  });
  document.head.append(script);
  return answer.finally(() => script.remove());
}
