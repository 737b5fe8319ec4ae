import { useEffect, useState } from 'react'

const SHOWN_MS = 1_500

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
  const [isCopied, setCopied] = useState(false)
  useEffect(() => {
    if (!isCopied) return undefined
    const timer = setTimeout(() => setCopied(false), SHOWN_MS)
    return () => clearTimeout(timer)
  }, [isCopied])
  return (
    <button
      type="button"
      className="copied"
      title={`Copy ${what}`}
      onClick={() => void navigator.clipboard.writeText(text).then(() => setCopied(true))}
    >
      <code>{shown}</code>
      <span aria-live="polite">{isCopied ? ' copied' : ''}</span>
    </button>
  )
}
