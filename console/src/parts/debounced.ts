import { useEffect, useState } from 'react'

const QUIET_MS = 200

/** A value once it has not changed for a moment, so that no request is made for each key that is pressed. */
export function useDebounced<T>(value: T): T {
  const [settled, setSettled] = useState(value)
  useEffect(() => {
    const timer = setTimeout(() => setSettled(value), QUIET_MS)
    return () => clearTimeout(timer)
  }, [value])
  return settled
}
