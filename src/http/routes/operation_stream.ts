import { Type } from 'typebox'
import {
  BEFORE_ALL,
  eventsSince,
  isPast,
  OPERATION_EVENTS,
  type OperationEvent,
  type Snapshot,
  snapshotNow,
} from '../../catalog/operation_event.ts'
import { AppError } from '../../errors.ts'
import { EventStream, type RequestContext, route } from '../route.ts'
import { presentOperation, requireProjectEver } from './operations.ts'

/** Also a silent connection must be known to be alive, by the client and by what lies between. */
const BEAT_MS = 15_000

/** Events are kept for so long: who was away for longer has missed some. */
const KEPT_SECONDS = 7 * 86_400

export const streamOperations = route('GET /projects/:project_id/operations/stream', {
  summary: 'Follow the operations of a project: one server-sent event for each change',
  tag: 'Operation',
  params: Type.Object({ project_id: Type.String() }),
  returns: EventStream,
  errors: ['NOT_FOUND'],
}).handle(async ({ params, headers }, context) => {
  await requireProjectEver(context, params.project_id)
  const last = headers['last-event-id']
  const place =
    last === undefined ? { seen: await snapshotNow(context.db), missed: false } : await readPlace(context, String(last))
  return follow(context, params.project_id, place)
})

interface Place {
  readonly seen: Snapshot
  /** Whether events may have been forgotten since. */
  readonly missed: boolean
}

/** The id of an event: when it was sent, and what had been seen of the catalog then. 0 stands for all that is kept. Errors: INVALID_REQUEST. */
async function readPlace({ db }: RequestContext, text: string): Promise<Place> {
  if (text === '0') return { seen: BEFORE_ALL, missed: false }
  const [, seconds, seen] = /^(\d{1,11})-(\d{1,19}:\d{1,19}:(?:\d{1,19}(?:,\d{1,19})*)?)$/.exec(text) ?? []
  if (seconds === undefined || seen === undefined)
    throw new AppError('INVALID_REQUEST', 'Last-Event-ID is not one of ours: send the id of the last event as it came.')
  if (!(await isPast(db, seen))) return { seen: await snapshotNow(db), missed: true }
  return { seen, missed: Number(seconds) < now() - KEPT_SECONDS }
}

const now = (): number => Math.floor(Date.now() / 1000)

/**
 * Each change of an operation since `place`, as soon as it is committed. Where some may be kept no more, a `reset` comes
 * first: then the operations must be listed once.
 */
async function* follow(
  { catalog, gone, stillIn }: RequestContext,
  projectId: string,
  place: Place,
): AsyncGenerator<string> {
  let { seen } = place
  let wake = (): void => {}
  const unlisten = await catalog.listen(OPERATION_EVENTS, (payload) => {
    if (payload === undefined || payload === projectId) wake()
  })
  gone.addEventListener('abort', () => wake(), { once: true })
  try {
    yield place.missed ? 'event: reset\ndata: {}\n\n' : ': operations\n\n'
    for (;;) {
      const changed = new Promise<void>((resolve) => {
        wake = resolve
      })
      if (gone.aborted || !(await stillIn())) return
      for await (const page of eventsSince(catalog, projectId, seen)) {
        seen = page.seen ?? seen
        // The last of all that there are carries the place to go on from.
        const end = page.seen === undefined ? '\n\n' : `\nid: ${now()}-${seen}\n\n`
        if (page.events.length > 0) yield page.events.map(message).join('\n\n') + end
      }
      let silent = false
      const timer = setTimeout(() => {
        silent = true
        wake()
      }, BEAT_MS)
      await changed
      clearTimeout(timer)
      if (silent) yield ': \n\n'
    }
  } finally {
    unlisten()
  }
}

function message(event: OperationEvent): string {
  const operation = presentOperation(event, event.updated_at)
  return `event: operation\ndata: ${JSON.stringify({ operation })}`
}
