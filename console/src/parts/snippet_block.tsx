import { useEffect, useState } from 'react'

const SHOWN_MS = 1_500

/** A text of several lines that is copied as a whole. */
export function SnippetBlock({
  title,
  text,
  what,
  hidden,
}: {
  readonly title: string
  readonly text: string
  /** What is copied, for the button's title. */
  readonly what: string
  /** A secret within the text, shown as dots and copied as it is. */
  readonly hidden?: string | undefined
}) {
  const [isCopied, setCopied] = useState(false)
  useEffect(() => {
    if (!isCopied) return undefined
    const timer = setTimeout(() => setCopied(false), SHOWN_MS)
    return () => clearTimeout(timer)
  }, [isCopied])
  return (
    <figure className="snippet">
      <figcaption>
        <span>{title}</span>
        <button
          type="button"
          title={`Copy ${what}`}
          onClick={() => void navigator.clipboard.writeText(text).then(() => setCopied(true))}
        >
          <span aria-live="polite">{isCopied ? 'copied' : 'Copy'}</span>
        </button>
      </figcaption>
      {/* A region that scrolls is reached by the keyboard. */}
      <pre tabIndex={0} role="region" aria-label={what}>
        <code>{hidden ? text.replaceAll(hidden, '••••••') : text}</code>
      </pre>
    </figure>
  )
}
