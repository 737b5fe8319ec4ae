import { useSyncExternalStore } from 'react'

const EVERY_MS = 5_000
const UNITS = [
  ['year', 31_536_000],
  ['month', 2_592_000],
  ['day', 86_400],
  ['hour', 3_600],
  ['minute', 60],
  ['second', 1],
] as const
const relative = new Intl.RelativeTimeFormat('en', { numeric: 'auto' })
const absolute = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' })

const listeners = new Set<() => void>()
let now = Date.now()
setInterval(() => {
  now = Date.now()
  for (const listener of listeners) listener()
}, EVERY_MS)

const subscribe = (listener: () => void) => {
  listeners.add(listener)
  return () => void listeners.delete(listener)
}

/** A moment as people say it, "3 minutes ago", with the local time beside the pointer. */
export function Moment({ at }: { readonly at: string }) {
  const seconds =
    (Date.parse(at) -
      Math.max(
        now,
        useSyncExternalStore(subscribe, () => now),
      )) /
    1000
  const [unit, size] = UNITS.find(([, length]) => Math.abs(seconds) >= length) ?? ['second', 1]
  return (
    <time dateTime={at} title={absolute.format(new Date(at))}>
      {relative.format(Math.round(seconds / size), unit)}
    </time>
  )
}
