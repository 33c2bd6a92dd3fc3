/** The gateway's dependencies as one value. Each room declares those that it needs. */

import type { BatchWatch } from '../core/pass-batches.ts'
import type { PassObjects } from '../core/pass-objects.ts'
import type { ChatDeps } from './chat/plan-call.ts'
import type { ResponsesDeps } from './responses/background-response.ts'
import type { SharingDeps } from './sharing/shared-responses.ts'

export type Gateway = ChatDeps &
  ResponsesDeps &
  SharingDeps & {
    /** The owners of objects of passed calls; absent: none are kept, so separated instances refuse every call. */
    readonly passObjects?: PassObjects
    /** Books batches of passed calls; absent: none is booked. */
    readonly batches?: BatchWatch
  }
