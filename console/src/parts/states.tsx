import type { ReactNode } from 'react'

/** What stands where data is on its way. */
export function Loading({ what }: { readonly what: string }) {
  return (
    <p className="state" role="status">
      {what} …
    </p>
  )
}

/** An error, and a way to try again. */
export function Failure({ error, retry }: { readonly error: Error; readonly retry?: () => void }) {
  return (
    <div className="state failure" role="alert">
      <p>{error.message}</p>
      {retry && (
        <button type="button" onClick={retry}>
          Try again
        </button>
      )}
    </div>
  )
}

/** What stands where there is no data yet: what it is for, and how to make the first. */
export function Empty({ title, children }: { readonly title: string; readonly children: ReactNode }) {
  return (
    <div className="state empty">
      <h2>{title}</h2>
      {children}
    </div>
  )
}
