import { type ReactNode, useId } from 'react'
import { useWhyViewOnly } from '../organizations_query.ts'

/**
 * A button that changes something of the organization, and says why it cannot be used now: beside the pointer, and to
 * those who do not see it.
 */
export function Action({
  unavailable: unavailableNow,
  isDangerous,
  onClick,
  children,
}: {
  /** Why it cannot be done now; undefined where it can. */
  readonly unavailable: string | undefined
  readonly isDangerous?: boolean
  readonly onClick: () => void
  readonly children: ReactNode
}) {
  const reason = useId()
  const viewOnly = useWhyViewOnly()
  const unavailable = unavailableNow ?? viewOnly
  return (
    <>
      <button
        type="button"
        className={isDangerous ? 'dangerous' : undefined}
        disabled={unavailable !== undefined}
        title={unavailable}
        aria-describedby={unavailable === undefined ? undefined : reason}
        onClick={onClick}
      >
        {children}
      </button>
      {unavailable !== undefined && (
        <span id={reason} className="hidden">
          {unavailable}
        </span>
      )}
    </>
  )
}
