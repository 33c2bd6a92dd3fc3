/** The gateway's dependencies as one value. Each room declares those that it needs. */
import type { ChatDeps } from './chat/plan-call.ts'
import type { ResponsesDeps } from './responses/background-response.ts'
import type { SharingDeps } from './sharing/shared-responses.ts'

export type Gateway = ChatDeps & ResponsesDeps & SharingDeps
