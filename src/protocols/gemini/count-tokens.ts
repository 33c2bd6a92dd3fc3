import { object } from '../../core/json.ts'
import type { TokenCounting } from '../../core/protocol.ts'
import { tokenCount } from '../shared/numbers.ts'
import { decodeCountedRequest } from './decode-request.ts'

/** `:countTokens`, whose body has contents, or the whole request as `generateContentRequest`. */
export const tokenCounting: TokenCounting = {
  suffix: ':countTokens',
  instead: ':generateContent',
  decodeRequest: decodeCountedRequest,
  decodeAnswer: (body) => tokenCount(object(body)?.totalTokens),
  encodeAnswer: (tokens) => ({ totalTokens: tokens }),
}
