import { runEffect } from './effect.ts'
import type { Progress } from './fence.ts'

/** Waits until no process holds the server lock of a home. */
export async function waitStopped(home: string, seconds: number): Promise<Progress> {
  return (await runEffect(['wait', home, String(seconds)])) === 'held' ? 'pending' : 'done'
}
