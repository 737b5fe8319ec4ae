import { useQueryClient, type QueryClient } from '@tanstack/react-query'
import { createParser } from 'eventsource-parser'
import { useEffect } from 'react'
import { isSignedOut, type Operation, send } from './api.ts'
import { mergeOperation } from './operation_lists.ts'

const FIRST_PAUSE_MS = 250
const MAX_PAUSE_MS = 5_000

/** Names of a project's queries; a change of an operation makes those of `state` be read anew. */
export const keysOf = (projectId: string) => ({
  state: ['project', projectId, 'state'] as const,
  operations: ['project', projectId, 'operations'] as const,
})

/**
 * Follows the operations of a project while the page is open: what others change is shown when it happens. A stream that
 * breaks goes on from the last event.
 */
export function useLiveOperations(projectId: string): void {
  const queries = useQueryClient()
  useEffect(() => {
    const stop = new AbortController()
    void follow(queries, projectId, stop.signal)
    return () => stop.abort()
  }, [queries, projectId])
}

async function follow(queries: QueryClient, projectId: string, signal: AbortSignal): Promise<void> {
  const { state, operations } = keysOf(projectId)
  let last: string | undefined
  let pause = FIRST_PAUSE_MS
  const refresh = () => void queries.invalidateQueries({ queryKey: state })
  const parser = createParser({
    onEvent({ id, event, data }) {
      if (id !== undefined) last = id
      if (event === 'reset') void queries.invalidateQueries({ queryKey: operations })
      else if (event === 'operation') {
        const { operation } = JSON.parse(data) as { operation: Operation }
        mergeOperation(queries, operations, operation)
      }
      refresh()
    },
  })
  while (!signal.aborted) {
    try {
      await read(projectId, last, signal, (text) => {
        pause = FIRST_PAUSE_MS
        parser.feed(text)
      })
    } catch (error) {
      if (isSignedOut(error)) return void queries.invalidateQueries({ queryKey: ['me'] })
    }
    parser.reset()
    if (signal.aborted) return
    await new Promise((resolve) => setTimeout(resolve, pause))
    pause = Math.min(MAX_PAUSE_MS, pause * 2)
    // Without an event so far there is no place to go on from.
    if (last === undefined) {
      refresh()
      void queries.invalidateQueries({ queryKey: operations })
    }
  }
}

async function read(
  projectId: string,
  last: string | undefined,
  signal: AbortSignal,
  onText: (text: string) => void,
): Promise<void> {
  const path = `/api/v2/projects/${encodeURIComponent(projectId)}/operations/stream`
  const { body } = await send('GET', path, { signal, lastEventId: last })
  const texts = body?.pipeThrough(new TextDecoderStream()).getReader()
  for (;;) {
    const { done, value } = (await texts?.read()) ?? { done: true }
    if (done || value === undefined) return
    onText(value)
  }
}
