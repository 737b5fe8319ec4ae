import { useEffect, useRef, useState } from 'react'
import { Field } from './field.tsx'

const SECOND_MS = 1_000

/** A time as `datetime-local` fields have it: local, to the second. */
function localTime(ms: number): string {
  return new Date(ms - new Date(ms).getTimezoneOffset() * 60_000).toISOString().slice(0, 19)
}

/**
 * A field for a time in the past, typed or chosen by a slider. The form has it as RFC 3339.
 * @param since where the slider begins, RFC 3339; without it there is none
 */
export function PastTime({
  name,
  since,
  onChoose,
}: {
  readonly name: string
  readonly since?: string | undefined
  readonly onChoose?: (rfc3339: string) => void
}) {
  const [now] = useState(() => Math.floor(Date.now() / SECOND_MS) * SECOND_MS)
  // Moments before this one may be too old.
  const first = since === undefined ? undefined : Math.ceil(Date.parse(since) / SECOND_MS) * SECOND_MS
  const [at, setAt] = useState(now)
  const field = useRef<HTMLInputElement>(null)
  useEffect(() => {
    // The form reads its fields when one of them changes.
    field.current?.dispatchEvent(new Event('input', { bubbles: true }))
    onChoose?.(new Date(at).toISOString())
  }, [at])
  return (
    <>
      <Field label="Time" hint="In the time zone of this browser. Commits until then are in, later ones are not.">
        <input
          type="datetime-local"
          step={1}
          required
          value={localTime(at)}
          max={localTime(now)}
          onChange={({ target }) => {
            const typed = Date.parse(target.value)
            if (!Number.isNaN(typed)) setAt(typed)
          }}
        />
      </Field>
      {first !== undefined && first < now && (
        <input
          type="range"
          aria-label="Time, from the beginning of the history until now"
          aria-valuetext={localTime(at)}
          min={first}
          max={now}
          step={SECOND_MS}
          value={at}
          onChange={({ target }) => setAt(Number(target.value))}
        />
      )}
      <input type="hidden" name={name} ref={field} value={new Date(at).toISOString()} />
    </>
  )
}
