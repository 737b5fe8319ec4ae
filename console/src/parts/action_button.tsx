import { useMutation } from '@tanstack/react-query'
import type { ReactNode } from 'react'

/** A button that does one thing at once, and says beside it why that failed. */
export function ActionButton({
  children,
  act,
  label,
}: {
  readonly children: ReactNode
  readonly act: () => Promise<unknown>
  /** The name of the button for those who do not see its row. */
  readonly label?: string
}) {
  const done = useMutation({ mutationFn: act })
  return (
    <>
      {done.error && <small role="alert">{done.error.message}</small>}
      <button type="button" aria-label={label} disabled={done.isPending} onClick={() => done.mutate()}>
        {children}
      </button>
    </>
  )
}
