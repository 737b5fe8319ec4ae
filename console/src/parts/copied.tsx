import { useCopy } from './copy.ts'

/** A text that is copied by a click. */
export function Copied({
  text,
  what,
  shown = text,
}: {
  readonly text: string
  readonly what: string
  readonly shown?: string
}) {
  const { outcome, copy } = useCopy(text)
  return (
    <button type="button" className="copied" title={`Copy ${what}`} onClick={copy}>
      <code>{shown}</code>
      <span aria-live="polite">{outcome && ` ${outcome}`}</span>
    </button>
  )
}
