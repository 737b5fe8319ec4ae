/* Message types, their first byte (Postgres manual, "Message Formats"). Some bytes differ in meaning by direction. */

/* From a client. */
export const QUERY = 0x51
export const PARSE = 0x50
export const BIND = 0x42
export const DESCRIBE = 0x44
export const EXECUTE = 0x45
export const CLOSE = 0x43
export const SYNC = 0x53
export const FLUSH = 0x48
export const FUNCTION_CALL = 0x46
export const TERMINATE = 0x58
export const COPY_DATA = 0x64
export const COPY_DONE = 0x63
export const COPY_FAIL = 0x66
/** Any response of a client to an authentication request. */
export const PASSWORD_MESSAGE = 0x70

/* From a server. */
export const AUTHENTICATION = 0x52
export const NEGOTIATE_PROTOCOL_VERSION = 0x76
export const BACKEND_KEY_DATA = 0x4b
export const READY_FOR_QUERY = 0x5a
export const ERROR_RESPONSE = 0x45
export const PARSE_COMPLETE = 0x31
export const BIND_COMPLETE = 0x32
export const CLOSE_COMPLETE = 0x33
export const COMMAND_COMPLETE = 0x43
export const NO_DATA = 0x6e
export const ROW_DESCRIPTION = 0x54
export const EMPTY_QUERY = 0x49
export const PORTAL_SUSPENDED = 0x73
export const PARAMETER_DESCRIPTION = 0x74
export const DATA_ROW = 0x44
export const COPY_IN = 0x47
export const COPY_OUT = 0x48
export const COPY_BOTH = 0x57
export const NOTIFICATION = 0x41
export const NOTICE = 0x4e
export const PARAMETER_STATUS = 0x53

/** The kind byte of Describe and Close for a prepared statement. */
export const OF_STATEMENT = 0x53

/* The transaction states in ReadyForQuery. */
export const IDLE = 0x49
export const IN_BLOCK = 0x54
export const FAILED = 0x45
