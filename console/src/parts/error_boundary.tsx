import { Component, type ReactNode } from 'react'
import { useLocation } from 'wouter'
import { Failure } from './states.tsx'

/** Shows an error of rendering, such as code that a newer Neap no longer has, until another page is opened. */
export function ErrorBoundary({ children }: { readonly children: ReactNode }) {
  const [path] = useLocation()
  return <OfPath path={path}>{children}</OfPath>
}

interface OfPathProps {
  readonly path: string
  readonly children: ReactNode
}

interface OfPathState {
  readonly path: string
  readonly error?: Error | undefined
}

class OfPath extends Component<OfPathProps, OfPathState> {
  static getDerivedStateFromError(error: Error): Partial<OfPathState> {
    return { error }
  }

  static getDerivedStateFromProps({ path }: OfPathProps, state: OfPathState): Partial<OfPathState> | null {
    return path === state.path ? null : { path, error: undefined }
  }

  override state: OfPathState = { path: this.props.path }

  override render() {
    const { error } = this.state
    return error ? <Failure error={error} retry={() => location.reload()} /> : this.props.children
  }
}
