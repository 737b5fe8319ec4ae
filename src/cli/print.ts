/** Writes a text and a line break to stdout. Ends this process when the reader is gone. */
export function print(text: string): void {
  if (!process.stdout.listeners('error').includes(endOnError)) process.stdout.on('error', endOnError)
  process.stdout.write(`${text}\n`)
}

function endOnError({ code, message }: NodeJS.ErrnoException): void {
  // The reader may have closed the pipe: `neap operations list --all | head`.
  if (code === 'EPIPE') process.exit(0)
  process.stderr.write(`neap: ${message}\n`)
  process.exit(1)
}
