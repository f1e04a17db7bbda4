// The client that the interface was made for: the upload flow and the polling as a front end has them, unchanged. What
// a page brings along (its origin, the file, the form) is set up above them.

const [origin, primaryFile, parametersGiven] = process.argv.slice(2);
const parameters = parametersGiven ? JSON.parse(parametersGiven) : null;
const seen: string[] = [];
const page = globalThis.fetch;
globalThis.fetch = (url, options) => page(new URL(String(url), origin), options);

interface TaskResult {
  status: string;
  progress: number;
}

function updateProgressUI(progress: number, status: string): void {
  seen.push(`${status} ${progress}`);
}

function sleep(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, Math.min(milliseconds, 50)));
}

// Frontend polling for task status
async function pollTaskStatus(taskId: string): Promise<TaskResult> {
  const POLL_INTERVALS = {
    UPLOADING: 2000, // 2 seconds
    QUEUED: 1000, // 1 second
    PROCESSING: 3000, // 3 seconds
  };

  while (true) {
    const response = await fetch(`/tasks/${taskId}`);
    const task = await response.json();

    // Update UI with progress
    updateProgressUI(task.progress, task.status);

    // Check terminal states
    if (["COMPLETED", "FAILED", "CANCELLED", "EXPIRED"].includes(task.status)) {
      return task;
    }

    // Wait before next poll
    const interval = POLL_INTERVALS[task.status] || 3000;
    await sleep(interval);
  }
}

// 1. Create task
const createResponse = await fetch("/tasks", {
  method: "POST",
  body: JSON.stringify({
    tool_id: "profile-my-data",
    agents: ["unified-profiler", "score-risk"],
  }),
});
const { task_id } = await createResponse.json();

// 2. Get upload URLs
const urlsResponse = await fetch(`/tasks/${task_id}/upload-urls`, {
  method: "POST",
  body: JSON.stringify({
    files: {
      primary: { filename: "data.csv", content_type: "text/csv" },
    },
    has_parameters: true,
  }),
});
const { uploads } = await urlsResponse.json();

// 3. Upload files to B2
await fetch(uploads.primary.url, {
  method: "PUT",
  headers: { "Content-Type": "text/csv" },
  body: primaryFile,
});

// 4. Upload parameters to B2
if (parameters && uploads.parameters) {
  await fetch(uploads.parameters.url, {
    method: "PUT",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(parameters),
  });
}

// 5. Trigger processing
await fetch(`/tasks/${task_id}/process`, { method: "POST" });

// 6. Poll for completion
const result = await pollTaskStatus(task_id);

// 7. Get download URLs
if (result.status === "COMPLETED") {
  const downloadsResponse = await fetch(`/tasks/${task_id}/downloads`);
  const { downloads } = await downloadsResponse.json();
  // downloads[0].url is presigned download URL
  const first = await (await fetch(downloads[0].url)).json();
  console.log(JSON.stringify({ task_id, result, seen, downloads, first }));
}
