#pragma once
/* store/common/claim_hold.h - who sees to the tasks of a claim: what becomes of them when its node dies. The numbers are those in tables. */

enum claim_hold {
    CLAIM_OWN,    /* the node itself: others take over (OP_ORPHANS) */
    CLAIM_HANDED, /* a queue (OP_HANDOFF) */
    CLAIM_LEASED, /* somebody outside, under a lease (struct lease_terms) */
};
