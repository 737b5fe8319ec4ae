import { useCopy } from './copy.ts'

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
  const { outcome, copy } = useCopy(text)
  return (
    <figure className="snippet">
      <figcaption>
        <span>{title}</span>
        <button type="button" title={`Copy ${what}`} onClick={copy}>
          <span aria-live="polite">{outcome ?? 'Copy'}</span>
        </button>
      </figcaption>
      {/* A region that scrolls is reached by the keyboard. */}
      <pre tabIndex={0} role="region" aria-label={what}>
        <code>{hidden ? text.replaceAll(hidden, '••••••') : text}</code>
      </pre>
    </figure>
  )
}
