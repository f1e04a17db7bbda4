"""What keeps a task from being paid for."""

from holdfast.errors.root import HoldfastError


class BillingError(HoldfastError):
    """The task cannot be paid for."""

    exit_code = 4
    http_status = 402


class CreditsInsufficient(BillingError):
    """Insufficient credits."""

    sqlstate = "TK025"
    http_code = "BILLING_INSUFFICIENT_CREDITS"


class WalletNotFound(BillingError):
    """Wallet not found."""

    sqlstate = "TK026"
    http_code = "BILLING_WALLET_NOT_FOUND"
