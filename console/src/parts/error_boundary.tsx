import { Component, type ReactNode } from 'react'
import { Failure } from './states.tsx'

/** Shows an error of rendering, such as a chunk that a newer Neap no longer has, instead of an empty page. */
export class ErrorBoundary extends Component<{ readonly children: ReactNode }, { readonly error?: Error }> {
  static getDerivedStateFromError(error: Error) {
    return { error }
  }

  override state: { readonly error?: Error } = {}

  override render() {
    const { error } = this.state
    return error ? <Failure error={error} retry={() => location.reload()} /> : this.props.children
  }
}
