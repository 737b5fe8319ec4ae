import type { ReactNode } from 'react'

/** One setting: its title, how it is now, and what changes it. */
export function Setting({
  title,
  state,
  children,
}: {
  readonly title: string
  readonly state: ReactNode
  readonly children?: ReactNode
}) {
  return (
    <section className="setting" aria-label={title}>
      <h2>{title}</h2>
      <div>{state}</div>
      <div className="actions">{children}</div>
    </section>
  )
}
