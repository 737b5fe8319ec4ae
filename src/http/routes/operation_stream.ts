import { once } from 'node:events'
import { Type } from 'typebox'
import { lastEventNumber, listEvents, OPERATION_EVENTS, type OperationEvent } from '../../catalog/operation_event.ts'
import { AppError } from '../../errors.ts'
import { EventStream, type RequestContext, route } from '../route.ts'
import { presentOperation, requireProjectEver } from './operations.ts'

/** Also a silent connection must be known to be alive, by the client and by what lies between. */
const BEAT_MS = 15_000

export const streamOperations = route('GET /projects/:project_id/operations/stream', {
  summary: 'Follow the operations of a project: one server-sent event for each change',
  tag: 'Operation',
  params: Type.Object({ project_id: Type.String() }),
  returns: EventStream,
  errors: ['NOT_FOUND'],
}).handle(async ({ params, headers }, context) => {
  await requireProjectEver(context, params.project_id)
  const last = headers['last-event-id']
  if (last !== undefined && !/^\d{1,15}$/.test(String(last)))
    throw new AppError('INVALID_REQUEST', 'Last-Event-ID is not one of ours: send the id of the last event as it came.')
  const after = last === undefined ? await lastEventNumber(context.db, params.project_id) : Number(last)
  return follow(context, params.project_id, after)
})

/**
 * Each change of an operation after the event `after`, as it is committed. Where events that old are kept no more, a `reset` comes
 * first: then the operations must be listed once.
 */
async function* follow(
  { catalog, gone, stillIn }: RequestContext,
  projectId: string,
  after: number,
): AsyncGenerator<string> {
  let last = after
  let wake = (): void => {}
  const unlisten = await catalog.listen(OPERATION_EVENTS, (payload) => {
    if (payload === undefined || payload === projectId) wake()
  })
  const end = once(gone, 'abort')
  try {
    yield ': operations\n\n'
    while (!gone.aborted && (await stillIn())) {
      const changed = new Promise<void>((resolve) => {
        wake = resolve
      })
      const events = await listEvents(catalog, projectId, last)
      const [first] = events
      if (first && first.number > last + 1) yield 'event: reset\ndata: {}\n\n'
      yield* events.map(message)
      last = events.at(-1)?.number ?? last
      if (first) continue
      const beat = Promise.withResolvers<boolean>()
      const timer = setTimeout(() => beat.resolve(true), BEAT_MS)
      const silent = await Promise.race([changed.then(() => false), end.then(() => false), beat.promise])
      clearTimeout(timer)
      if (silent) yield ': \n\n'
    }
  } finally {
    unlisten()
  }
}

function message(event: OperationEvent): string {
  return `id: ${event.number}\nevent: operation\ndata: ${JSON.stringify({ operation: presentOperation(event, event.updated_at) })}\n\n`
}
