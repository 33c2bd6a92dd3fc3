/** The contracts of services, by their kind. */
import type { GuardService } from '../../../core/guard.ts'
import { bedrockCalls } from './bedrock.ts'
import { headgateCalls } from './headgate.ts'
import { litellmCalls } from './litellm.ts'
import { moderationCalls } from './moderation.ts'
import { presidioCalls } from './presidio.ts'
import type { AskedTexts, ServiceCall } from './service-call.ts'

/** The calls that ask a service about these texts; each reads its own answer. */
export const serviceCalls = (service: GuardService, asked: AskedTexts): readonly ServiceCall[] => {
  switch (service.kind) {
    case 'headgate':
      return headgateCalls(asked)
    case 'litellm':
      return litellmCalls(service, asked)
    case 'moderation':
      return moderationCalls(service, asked)
    case 'presidio':
      return presidioCalls(service, asked)
    case 'bedrock':
      return bedrockCalls(service, asked)
    default:
      throw new Error(`unknown service ${JSON.stringify(service satisfies never)}`)
  }
}
