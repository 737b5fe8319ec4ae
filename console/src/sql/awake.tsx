import { type ReactNode, useState } from 'react'
import type { BranchTabProps } from '../pages/branch.tsx'
import { NoCompute } from '../parts/no_compute.tsx'
import { Empty, Failure, Loading } from '../parts/states.tsx'
import type { SqlPlace } from './ask.ts'
import { PlaceFields, useSqlPlace } from './place.tsx'

interface AwakeProps extends BranchTabProps {
  /** What is read, for the texts: "the tables". */
  readonly what: string
  readonly children: (place: SqlPlace) => ReactNode
}

/** What is read by SQL from a branch's database: a sleeping compute is woken only when asked. */
export function WhenAwake({ branch, endpoint, what, children }: AwakeProps) {
  const choice = useSqlPlace(branch)
  const isActive = endpoint?.current_state === 'active'
  const [isShown, setShown] = useState(isActive)
  // What was read stays when the compute goes to sleep.
  if (isActive && !isShown) setShown(true)
  if (!endpoint) return <NoCompute branch={branch} what={what} />
  if (choice.read.isPending) return <Loading what="Reading databases and roles" />
  if (choice.read.error && !choice.read.data)
    return <Failure error={choice.read.error} retry={() => void choice.read.refetch()} />
  return (
    <div className="sql">
      <div className="toolbar">
        <PlaceFields choice={choice} />
      </div>
      {isShown ? (
        children(choice.place)
      ) : (
        <Empty title="The compute sleeps">
          <p>Reading {what} wakes it.</p>
          <button type="button" className="main" onClick={() => setShown(true)}>
            Wake it and read {what}
          </button>
        </Empty>
      )}
    </div>
  )
}
