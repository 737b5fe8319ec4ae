import { fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import type { Neap } from '../../test/neap.ts'

export interface Commits {
  /** Runs `work` beside a client that commits one row after the other; returns the milliseconds of its commits. */
  during(work: () => Promise<unknown>): Promise<number[]>
  end(): Promise<void>
}

/** Starts a client that commits rows to the table `written`, in a session of its own (session.ts). */
export async function startCommits({ ready }: Neap, uri: string): Promise<Commits> {
  const program = fileURLToPath(new URL('commits_program.ts', import.meta.url))
  const child = fork(program, [uri, ready.ca_file], { detached: true })
  const answer = async () => {
    const [samples] = (await Promise.race([
      once(child, 'message'),
      once(child, 'exit').then(([code]) => {
        throw new Error(`the client that commits ended with exit code ${code}`)
      }),
    ])) as [number[]]
    return samples
  }
  const take = () => {
    const answered = answer()
    child.send('take')
    return answered
  }
  await answer()
  return {
    async during(work) {
      await take()
      await work()
      return take()
    },
    async end() {
      const ended = once(child, 'exit')
      child.disconnect()
      await ended
    },
  }
}
