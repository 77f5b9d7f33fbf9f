//! Answers for real graphs, computed by igraph to twelve digits; communities by a plain program of
//! the definition.

/// Answers for one graph, of which only nodes with a relationship count.
pub(crate) struct Expected {
    pub(crate) is_directed: bool,
    pub(crate) nodes: usize,
    pub(crate) edges: usize,
    /// Weak components: their number, nodes of the largest.
    pub(crate) weak: (usize, usize),
    /// Strong components: their number, nodes of the largest.
    pub(crate) strong: Option<(usize, usize)>,
    pub(crate) triangles: i64,
    /// The mean of local clustering, relationships taken without direction.
    pub(crate) clustering: f64,
    /// The largest k of a k-core, and its nodes.
    pub(crate) core: (i64, usize),
    /// The ten highest scores after convergence, damping 0.85.
    pub(crate) page_rank: &'static [(i64, f64)],
    /// The ten highest scores.
    pub(crate) betweenness: &'static [(i64, f64)],
    /// A start, and the number of nodes at each depth.
    pub(crate) bfs: (i64, &'static [usize]),
    /// Communities after ten rounds: their number, nodes of the largest, the sum over nodes.
    pub(crate) communities: (usize, usize, i64),
    /// Cheapest paths: the start, nodes reached, sum and maximum of the costs.
    pub(crate) costs: Option<(i64, usize, f64, f64)>,
}

pub(crate) const WIKI_VOTE: Expected = Expected {
    is_directed: true,
    nodes: 7_116,
    edges: 103_689,
    weak: (24, 7_067),
    strong: Some((5_817, 1_300)),
    triangles: 608_387,
    clustering: 0.140876843942,
    core: (53, 336),
    page_rank: &[
        (4_037, 0.00460670404565),
        (15, 0.00367954233718),
        (6_634, 0.00358652156382),
        (2_625, 0.00328335473821),
        (2_398, 0.00260863937274),
        (2_470, 0.00252343821745),
        (2_237, 0.00249631256614),
        (4_191, 0.00226786417247),
        (7_553, 0.0021695128146),
        (5_254, 0.00215725661148),
    ],
    betweenness: &[
        (2_565, 893353.123512),
        (1_549, 838191.623437),
        (15, 584974.119761),
        (72, 405416.827583),
        (737, 310451.060717),
        (1_166, 293622.8878),
        (5_079, 275184.719222),
        (2_328, 263248.882432),
        (2_237, 238579.520761),
        (28, 230956.487432),
    ],
    bfs: (2_565, &[1, 893, 1_117, 297, 8]),
    communities: (52, 3_394, 412_729),
    costs: None,
};

pub(crate) const PARENTS: Expected = Expected {
    is_directed: true,
    nodes: 34_472,
    edges: 45_087,
    weak: (8, 34_407),
    strong: Some((34_472, 1)),
    triangles: 3_163,
    clustering: 0.121006473789,
    core: (2, 32_246),
    page_rank: &[
        (20_025, 0.000181159047512),
        (9_430, 0.000180249154129),
        (24_877, 0.000171669417838),
        (20_838, 0.000168577898289),
        (8_047, 0.000160687865469),
        (26_475, 0.000158677892842),
        (18_712, 0.000158164851456),
        (15_537, 0.000157889227535),
        (22_864, 0.000153200571808),
        (5_785, 0.00015293803735),
    ],
    betweenness: &[],
    bfs: (36, &[1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]),
    communities: (6_539, 40, 591_499_966),
    costs: None,
};

pub(crate) const COCHANGE: Expected = Expected {
    is_directed: false,
    nodes: 3_236,
    edges: 44_607,
    weak: (23, 3_114),
    strong: None,
    triangles: 448_968,
    clustering: 0.766903346535,
    core: (55, 129),
    page_rank: &[
        (2_249, 0.00759686784778),
        (46, 0.00595862674173),
        (45, 0.00481264751787),
        (1_039, 0.00365761362581),
        (1_482, 0.00340391133432),
        (815, 0.00332614164869),
        (831, 0.0032887809474),
        (3_033, 0.0032813196338),
        (754, 0.00304491774073),
        (880, 0.00299334777876),
    ],
    betweenness: &[
        (46, 614420.386823),
        (2_249, 568629.521368),
        (815, 416983.553311),
        (45, 395240.252346),
        (1_039, 339012.616567),
        (831, 305905.570917),
        (754, 189682.404332),
        (1_043, 182237.384374),
        (1_482, 181983.154757),
        (880, 167717.042418),
    ],
    bfs: (46, &[1, 669, 1_827, 551, 51, 15]),
    communities: (127, 1_832, 1_715_712),
    costs: Some((1, 3_114, 4274.014653087, 3.581009064)),
};

pub(crate) const KNOWS: Expected = Expected {
    is_directed: false,
    nodes: 1_357,
    edges: 14_073,
    weak: (1, 1_357),
    strong: None,
    triangles: 23_286,
    clustering: 0.214873655212,
    core: (19, 435),
    page_rank: &[
        (26_388_279_067_534, 0.0130783693743),
        (32_985_348_834_375, 0.0121625757251),
        (2_199_023_256_816, 0.00972140465621),
        (24_189_255_811_566, 0.00959717647393),
        (6_597_069_767_242, 0.00768497168786),
        (30_786_325_578_932, 0.00719089187795),
        (24_189_255_811_663, 0.00667174971456),
        (28_587_302_322_537, 0.00486957874103),
        (1_564, 0.00387272692356),
        (30_786_325_578_585, 0.00367252216755),
    ],
    betweenness: &[
        (26_388_279_067_534, 103909.79235),
        (32_985_348_834_375, 99097.1532389),
        (2_199_023_256_816, 72301.7880939),
        (24_189_255_811_566, 65187.2005834),
        (6_597_069_767_242, 45215.6589859),
        (30_786_325_578_932, 38217.649391),
        (24_189_255_811_663, 36911.8857918),
        (28_587_302_322_537, 19897.4000786),
        (1_564, 13930.8194354),
        (987, 13921.8077081),
    ],
    bfs: (26_388_279_067_534, &[1, 340, 911, 105]),
    communities: (1, 1_357, 194_051),
    costs: None,
};
