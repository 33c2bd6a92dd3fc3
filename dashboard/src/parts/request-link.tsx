import type { ComponentChildren } from 'preact'
import { pageHref } from '../store.ts'
import { en } from '../words/en.ts'

/** A link to a request. */
export const RequestLink = ({
  id,
  children = en.states.request(id),
}: {
  readonly id: string
  readonly children?: ComponentChildren
}) => (
  <a href={pageHref('requests', id)} title={id}>
    {children}
  </a>
)
